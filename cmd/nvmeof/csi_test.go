package main

// csiPage lists the command lines of docs/csi.md. The driver has tests of its own.
var csiPage = []documented{
	{line: "nvmeof token create csi --role operate --file /etc/nvmeof/tokens", by: "cmd/nvmeof TestConsolePage"},
	{line: "mkdir -p /etc/nvme", why: "it is another machine's"},
	{line: "nvme gen-hostnqn | tee /etc/nvme/hostnqn | sed 's/.*:uuid://' > /etc/nvme/hostid", why: "it is another machine's"},
	{line: "modprobe nvme-rdma", by: "test/interop TestCSI"},
	{line: "modprobe rdma_rxe", by: "test/interop TestCSI"},
	{line: "rdma link add rxe0 type rxe netdev eth0", by: "test/interop TestCSI"},
	{line: "CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/nvmeof-csi", by: "test/interop TestCSI"},
	{line: "podman build -f deploy/kubernetes/Containerfile -t nvmeof-csi:TAG .", why: "it needs a registry with Debian's image"},
	{line: "kubectl apply -f deploy/kubernetes/driver.yaml", why: "it needs a cluster; cmd/nvmeof-csi TestManifests reads the file"},
	{line: "kubectl create secret generic nvmeof-csi -n nvmeof-csi --from-file csi.yaml --from-file token --from-file ca.pem", why: "it needs a cluster"},
	{line: "kubectl apply -f deploy/kubernetes/storageclass.yaml", why: "it needs a cluster; cmd/nvmeof-csi TestManifests reads the file"},
	{line: "kubectl get pods -n nvmeof-csi -o wide", why: "it needs a cluster"},
	{line: "kubectl get csinodes -o custom-columns=NODE:.metadata.name,DRIVERS:.spec.drivers[*].name", why: "it needs a cluster"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --config /etc/nvmeof-csi/csi.yaml", by: "cmd/nvmeof-csi TestServes"},
	{line: "nvmeof-csi --endpoint unix:///csi/csi.sock --node", by: "cmd/nvmeof-csi TestServes"},
	{line: "kubectl apply -f deploy/kubernetes/example.yaml", why: "it needs a cluster; cmd/nvmeof-csi TestManifests reads the file"},
	{line: "kubectl get pvc,pod example", why: "it needs a cluster"},
	{line: "kubectl delete -f deploy/kubernetes/example.yaml", why: "it needs a cluster"},
	{line: "kubectl rollout restart -n nvmeof-csi deployment/controller", why: "it needs a cluster"},
	{line: "go test ./cmd/nvmeof-csi/internal/driver -run '^TestKilledWithin$' -long", by: ".ci/run"},
}
