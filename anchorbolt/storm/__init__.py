"""What real Storm wrote: the wrapper around its values, Base64, Kryo streams. Reads bytes; knows no store."""
