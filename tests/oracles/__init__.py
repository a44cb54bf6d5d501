"""Plain definitions to compare the engine with, slow and obvious."""
