int rows_seen;

note_row()
{
  return ++rows_seen;
}
