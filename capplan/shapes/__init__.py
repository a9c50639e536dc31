"""The shapes of answers: ordered lists of figures, from which documents, schemas, CSVs and tables are derived."""
