"""Read measured runs of served language models: CSV files of many, and the results of benchmark tools."""
