"""What the page and the REST API show, as JSON objects. Pure, except for `live` and `recorded`, which look at a run."""
