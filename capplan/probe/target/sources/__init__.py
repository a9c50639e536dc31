"""Where models come from: Python files, exported programs, torchvision, timm, transformers."""
