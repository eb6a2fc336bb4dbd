# SPDX-License-Identifier: Apache-2.0
"""Documents and examples: records, readers of file formats, splits, partitions and the sample alliance."""
