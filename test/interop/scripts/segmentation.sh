# Sets whether peer0 accepts UDP super-packets unsegmented. Parameters: state (on, off).
ethtool -K peer0 tx-udp-segmentation "$state"
