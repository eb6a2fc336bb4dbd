# SPDX-License-Identifier: Apache-2.0
"""The classes of transformers that annotations name.

Importing them takes longer than all else that fedqa imports, PyTorch included. What only names them takes them from
here, so that a command which loads no model does not wait for them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
else:
    PreTrainedModel = PreTrainedTokenizerBase = Any

__all__ = ["PreTrainedModel", "PreTrainedTokenizerBase"]
