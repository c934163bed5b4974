"""Files for other programs: the folders and metadata that evaluators read, and the result file of an API."""
