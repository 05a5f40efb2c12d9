package main

// csiPage are the command lines of docs/csi.md. What the driver does is tried beside it.
var csiPage = []documented{
	{line: "nvmeof token create csi --role operate --file /etc/nvmeof/tokens", by: "cmd/nvmeof TestConsolePage"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --config /etc/nvmeof-csi/csi.yaml", by: "cmd/nvmeof-csi TestServes"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --node", by: "cmd/nvmeof-csi TestServes"},
	{line: "go test ./cmd/nvmeof-csi/internal/driver -run '^TestKilledWithin$' -long", by: ".ci/run"},
}
