package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The network of the real node. The node's address is on one end of a veth pair whose other end has
// no address, because a kubelet does not accept an address of the loopback device.
const (
	nodeAddress = "192.0.2.10"
	nodeGateway = "192.0.2.1"
	podNetwork  = "10.244.7.0/24"
)

// Paths of a node. They are the usual ones, because they are inside the root.
const (
	kubeletDir       = "/var/lib/kubelet"
	kubeletEtc       = "/etc/kubernetes"
	containerdEtc    = "/etc/containerd/config.toml"
	containerdDir    = "/var/lib/containerd"
	containerdSocket = "/run/containerd/containerd.sock"
	networkEtc       = "/etc/cni/net.d"
)

// node makes the root a node of the cluster.
func (c *Cluster) node(name string) error {
	if err := c.machine(); err != nil {
		return err
	}
	c.Containerd = c.program(runtimeReady, "containerd", "--config="+containerdEtc)
	if err := c.Containerd.Start(); err != nil {
		return err
	}
	for image, program := range map[string]string{Pause: "pause", Workload: "workload"} {
		c.Image(image, filepath.Join(programDir, program))
	}
	get, err := c.getter()
	if err != nil {
		return err
	}
	if c.Kubelet, err = c.kubelet(name, func() error { return get("http://127.0.0.1:10248/healthz") }); err != nil {
		return err
	}
	if err := c.Kubelet.Start(); err != nil {
		return err
	}
	return wait("node "+name+" to be Ready", 2*time.Minute, c.Kubelet.Ready)
}

// machine prepares the root: its network, the file systems that containers need, and the
// configuration of the container runtime.
func (c *Cluster) machine() error {
	for _, args := range [][]string{
		{"link", "add", "node0", "type", "veth", "peer", "name", "world0"},
		{"address", "add", nodeAddress + "/24", "dev", "node0"},
		{"address", "add", service + "/32", "dev", "lo"},
		{"link", "set", "node0", "up"},
		{"link", "set", "world0", "up"},
		{"route", "add", "default", "via", nodeGateway, "dev", "node0"},
	} {
		run(c.t, append([]string{"ip"}, args...)...)
	}
	// Mount propagation to containers needs a shared mount. systemd makes the root of a machine
	// one.
	if err := syscall.Mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts of the root: %w", err)
	}
	// The root is an overlay, and an overlay cannot have a directory of another overlay as its
	// upper layer.
	for _, dir := range []string{containerdDir, kubeletDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("tmpfs on %s: %w", dir, err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_SHARED, ""); err != nil {
			return fmt.Errorf("sharing %s: %w", dir, err)
		}
	}
	network, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []any{map[string]any{
			"type": "ptp", "ipMasq": false,
			"ipam": map[string]any{
				"type": "host-local", "ranges": [][]map[string]string{{{"subnet": podNetwork}}},
				"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		containerdEtc:                    containerdConfig,
		networkEtc + "/10-pods.conflist": string(network),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// containerdConfig is for containerd 1.6 of Debian 12. As for the kubelet, control groups are
// created directly, without systemd. The machine may lack control groups for huge pages. If it is a
// guest with few rights, even root may lack the right to lower a process's oom_score_adj below its
// own (CAP_SYS_RESOURCE).
const containerdConfig = `version = 2
root = "` + containerdDir + `"
state = "/run/containerd"

[grpc]
  address = "` + containerdSocket + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + Pause + `"
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + networkEtc + `"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`
