"""Workers that stay: processes that hold a topology's tasks for a whole run, and exchange blobs directly."""
