"""The answers of the page and the REST API. Pure, except for `live` and `recorded`, which observe a run."""
