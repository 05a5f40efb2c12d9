# The first packets of a link, so that address resolution is done.
within 20 ping -c 1 -W 1 "$peer4"
within 20 ping -c 1 -W 1 "$peer6"
