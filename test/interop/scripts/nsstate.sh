# Waits until a namespace has the given state. Parameters: nqn, nsid, mib (its size; 0: there is no such namespace), ro
# (0 or 1).
as_wanted() {
  local dev
  dev=$(block_device "$nqn" "$nsid") || { ((mib == 0)); return; }
  ((mib > 0 && $(blockdev --getsize64 "$dev") == mib << 20 && $(blockdev --getro "$dev") == ro))
}
within 20 as_wanted
