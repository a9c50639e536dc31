"""Write the report on serving a language model as a page, Markdown, CSV, JSON, PDF or workbook."""
