"""Read Hugging Face configurations of language models strictly."""
