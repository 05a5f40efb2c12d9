# Whether peer0 takes UDP super-packets as they are. Parameters: state (on, off).
ethtool -K peer0 tx-udp-segmentation "$state"
