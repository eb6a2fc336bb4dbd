# SPDX-License-Identifier: Apache-2.0
"""The algorithm of federated training: what is shared, what is sent, how it is mixed, checked and recorded."""
