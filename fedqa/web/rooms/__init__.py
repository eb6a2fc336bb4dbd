# SPDX-License-Identifier: Apache-2.0
"""The rooms of the page: one module each, with `router(page)`; they are listed in `fedqa/web/app.py`."""
