"""Static code-path auditor and patch manager for SGLang on workstation Blackwell GPUs.

The audited source is only ever read: nothing in this package imports or runs it.
"""

__version__ = "0.1.0"
