"""`capplan measure`: a module for each thing it does."""
