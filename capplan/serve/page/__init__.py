"""The page: answers as HTML that is rendered here, with a small script that swaps them as the form changes."""
