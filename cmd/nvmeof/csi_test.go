package main

// csiPage are the command lines of docs/csi.md. What the driver does is tried beside it.
var csiPage = []documented{
	{line: "nvmeof token create csi --role operate --file /etc/nvmeof/tokens", by: "cmd/nvmeof TestConsolePage"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --config /etc/nvmeof-csi/csi.yaml", by: "cmd/nvmeof-csi TestServes"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --node", by: "cmd/nvmeof-csi TestServes"},
	{line: "CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/nvmeof-csi", by: "test/interop TestCSI"},
	{line: "podman build -f deploy/kubernetes/Containerfile -t nvmeof-csi:TAG .", why: "it needs a registry with Debian's image"},
	{line: "kubectl apply -f deploy/kubernetes/driver.yaml", why: "it needs a cluster; cmd/nvmeof-csi TestManifests reads the file"},
	{line: "kubectl create secret generic nvmeof-csi -n nvmeof-csi --from-file csi.yaml --from-file token --from-file ca.pem", why: "it needs a cluster"},
	{line: "kubectl apply -f deploy/kubernetes/storageclass.yaml", why: "it needs a cluster; cmd/nvmeof-csi TestManifests reads the file"},
	{line: "nvme gen-hostnqn | tee /etc/nvme/hostnqn | sed 's/.*:uuid://' > /etc/nvme/hostid", why: "it is another machine's"},
	{line: "go test ./cmd/nvmeof-csi/internal/driver -run '^TestKilledWithin$' -long", by: ".ci/run"},
}
