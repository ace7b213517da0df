"""Weights on disk: reading them safely, comparing them, the LoRA they need."""
