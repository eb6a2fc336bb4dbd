# SPDX-License-Identifier: Apache-2.0
"""What every study needs: trainings that can be resumed, statistics over them, tables, charts, a page."""
