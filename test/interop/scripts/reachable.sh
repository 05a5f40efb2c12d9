# Exchanges the first packets of a link, so that addresses are resolved.
within 20 ping -c 1 -W 1 "$peer4"
within 20 ping -c 1 -W 1 "$peer6"
