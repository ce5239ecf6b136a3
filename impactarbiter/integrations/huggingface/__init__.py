"""The Hugging Face Trainer: callback, arguments, command line."""
