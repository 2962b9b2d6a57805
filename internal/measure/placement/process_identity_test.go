package placement

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// TestContainerNames: the words that a person takes from docker ps, podman ps, crictl ps, kubectl
// get pods, machinectl and virsh list find the process. The groups are those of runtimes on a
// machine: Docker 20.10, Podman 4.3, runc 1.1 and ctr 1.6 with cgroupfs, those of the kubelet with
// both drivers, and those of Docker, Podman, systemd-nspawn, LXC and libvirt with systemd.
func TestContainerNames(t *testing.T) {
	const (
		id, inner = "ba2c9327f7da59fc6d359b720294cbbc8d94405b8c349e6c7db18822d8e48aea", "522e600be27d1eeedcd837577ad239460415aa655cc7652a58e2ced673a526e7"
		digits    = "123456789012" + "59fc6d359b720294cbbc8d94405b8c349e6c7db18822d8e48aea"
		uid       = "d69c01f8-6b74-11e9-ac0f-0a2b62178a22"
		static    = "7ed4d3b3a3d4e4e2a8b4b6fdc1c3a1f0" // a hash of the pod's file
		slice     = "kubepods-burstable-podd69c01f8_6b74_11e9_ac0f_0a2b62178a22.slice"
		payload   = "/machine.slice/systemd-nspawn@lab.service/payload/system.slice/nginx.service"
	)
	files := map[string]string{
		"/var/log/pods/shop_web-0_" + uid + "/":                   "",
		"/var/log/pods/kube-system_etcd-node1_" + static + "/":    "",
		"/var/lib/docker/containers/" + inner + "/config.v2.json": `{"State":{"Pid":12},"ID":"` + inner + `","Name":"/store"}`,
		"/proc/10/status":  "Name:\tconmon\nPPid:\t1\n",
		"/proc/10/cgroup":  "0::/machine.slice/libpod-conmon-" + id + ".scope\n",
		"/proc/10/cmdline": strings.ReplaceAll("/usr/bin/conmon --api-version 1 -c "+id+" -u "+id+" -r /usr/bin/crun -n front --exit-dir /run/libpod/exits", " ", "\x00"),
		"/proc/11/status":  "Name:\tinit\nPPid:\t10\n",
		"/proc/11/cgroup":  "0::/machine.slice/libpod-" + id + ".scope/container\n",
	}
	groups := []string{
		"0::/machine.slice/libpod-" + id + ".scope/container\n", // 100, a child of 11
		"9:name=systemd:/docker/" + inner + "\n0::/system.slice/containerd.service\n",
		"0::/system.slice/docker-" + inner + ".scope/init.scope\n",
		"4:memory:/x/web\n9:name=systemd:/web\n0::/web\n", // runc run web
		"9:name=systemd:/default/shop\n0::/default/shop\n",
		"0::" + payload + "\n",
		"0::/machine.slice/machine-old\\x2dlab.scope/payload\n",
		"0::/lxc.payload.c1/system.slice/ssh.service\n",
		"0::/system.slice/runc-hand.scope\n",
		"0::/kubepods.slice/kubepods-burstable.slice/" + slice + "/cri-containerd-" + id + ".scope\n",
		"0::/kubepods/burstable/pod" + uid + "/" + id + "\n",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice/crio-" + id + ".scope\n",
		"0::/docker/" + inner + "/kubelet/kubepods/pod" + uid + "/" + digits + "\n", // in a node of kind
		"0::/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope/libvirt/emulator\n",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/db.service\n",
	}
	for i, text := range groups {
		dir := "/proc/" + string(rune('1'+i/10)) + "0" + string(rune('0'+i%10)) + "/"
		files[dir+"status"], files[dir+"cgroup"] = "Name:\tapp\nPPid:\t11\n", text
	}
	files["/proc/203/cgroup"], files["/proc/203/cmdline"] = groups[13], "/usr/bin/qemu-system-x86_64\x00-name\x00guest=vm1,debug-threads=on\x00"
	h := machine.Mounted(t, files)
	for word, want := range map[string][]int{
		"front": {11, 100}, id[:12]: {11, 100, 109, 200, 201}, id: {11, 100, 109, 200, 201}, id[:5]: nil, "store": {101, 102}, inner[:13]: {101, 102, 202},
		"docker-" + inner + ".scope": {102}, "web": {103}, "shop": {104}, "lab": {105}, "nginx": {105}, "systemd-nspawn@lab": {105}, "old-lab": {106},
		"c1": {107}, "hand": {108}, uid: {109, 200, 202}, "web-0": {109, 200, 202}, "shop/web-0": {109, 200, 202}, "0": nil, "shop/web": nil,
		static: {201}, "etcd-node1": {201}, digits[:12]: {202}, "vm1": {203}, "user@1000": {204}, "db": {204}, "user.slice": {204}, "machine.slice": {10, 11, 100, 105, 106, 203}, "conmon": {10}, ".": nil,
	} {
		var got []int
		found, err := matching(h, word, 1)
		for _, p := range found {
			got = append(got, p.PID)
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v (%v)", word, got, want, err)
		}
	}
}
