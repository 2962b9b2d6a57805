package placement

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestParseBinding(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/proc/self/status":                      "Cpus_allowed_list:\t1-6\nMems_allowed_list:\t1-3\n",
		"/proc/self/cgroup":                      "0::/batch.slice\n",
		nodesDir + "online":                      "0-3\n",
		nodesDir + "has_memory":                  "0-2\n",
		"/sys/devices/system/cpu/online":         "0-7\n",
		nodesDir + "node0/cpulist":               "0-1\n",
		nodesDir + "node1/cpulist":               "2-3\n",
		nodesDir + "node2/cpulist":               "4-7\n",
		nodesDir + "node3/cpulist":               "\n",
		"/sys/devices/pci0/eth/numa_node":        "2\n",
		"/sys/devices/pci0/eth/net/eth0/address": "x\n",
		"/sys/class/net/eth0":                    "-> /sys/devices/pci0/eth/net/eth0",
		"/sys/devices/pci0/nvme/numa_node":       "-1\n",
		"/sys/class/block/nvme0n1":               "-> /sys/devices/pci0/nvme",
	})
	for words, want := range map[string]struct {
		policy      int
		nodes, cpus string
	}{
		"-N 1":                     {0, "", "2-3"},
		"-N 2":                     {0, "", "4-6"}, // CPU 7 is not allowed
		"-a -N 0":                  {0, "", "0-1"},
		"-C !2-3":                  {0, "", "1,4-6"},
		"-C +0-1":                  {0, "", "1-2"},
		"-N 1 -C 5":                {0, "", "5"},
		"-m +0":                    {policyBind, "1", ""},
		"-i all":                   {policyInterleave, "1-3", ""},
		"-N 2 -m same":             {policyBind, "2", "4-6"},
		"-p !1-2":                  {policyPreferred, "3", ""},
		"--preferred-many=1,3":     {policyPreferredMany, "1,3", ""},
		"-l":                       {policyLocal, "", ""},
		"-w 1,3":                   {policyWeighted, "1,3", ""},
		"--weigh=all -t":           {policyWeighted, "1-3", ""}, // numactl ignores --strict too
		"-N netdev:eth0 -m same":   {policyBind, "2", "4-6"},
		"--cpunodebind=1 --memb 1": {policyBind, "1", "2-3"},
	} {
		b, command, err := ParseBinding(h, append(strings.Fields(words), "true", "-N"))
		if err != nil || len(command) != 2 || b.Policy != want.policy || b.Nodes.String() != want.nodes || b.CPUs.String() != want.cpus {
			t.Errorf("%s: %+v, %q, %v", words, b, command, err)
		}
	}
	for _, words := range []string{"-N 0", "-N 3", "-m 9", "-m x", "-m !all", "-p 1-2", "-m 1 -i 1", "-C +6", "-C 0", "-m netdev:eth1", "-m block:nvme0n1", "-m same", "-m usb:1", "-z", "-m", "-w 1 -i 1", "--s"} {
		if b, _, err := ParseBinding(h, append(strings.Fields(words), "true")); err == nil {
			t.Errorf("%s: %+v", words, b)
		}
	}
}

// TestParseBindingRefusals: an error names the control group or the empty node, and says why an
// option of numactl is not supported. numactl 2.0.16 exits 1 for a command with --touch, --length,
// --huge, --dump, --offset and --shmmode as well ("shm related option --length for process").
func TestParseBindingRefusals(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/proc/self/status":              "Cpus_allowed_list:\t1-6\nMems_allowed_list:\t1-2\n",
		"/proc/self/cgroup":              "0::/batch.slice\n",
		nodesDir + "online":              "0-3\n",
		nodesDir + "has_memory":          "0-2\n",
		"/sys/devices/system/cpu/online": "0-7\n",
	})
	const shared = "is for shared memory"
	for words, want := range map[string]string{
		"-m 0": "control group /batch.slice", "-m 3": "node 3 has no memory", "-C 7": "control group /batch.slice", "-i 0-3": "node 3 has no memory",
		"--touch": "--touch " + shared, "-m 1 -T": "--touch " + shared, "-S /x -m 1": "--shm " + shared, "--file=/dev/shm/x": "--file " + shared,
		"-L 1m": "--length " + shared, "--off 0": "--offset " + shared, "-M 600": "--shmmode " + shared, "-I 1": "--shmid " + shared,
		"-u": "--huge " + shared, "-d": "--dump " + shared, "--dump-n": "--dump-nodes " + shared, "-V": "--verify " + shared,
		"-s": "fettle numa show -p PID", "--hardw": "fettle numa show",
	} {
		if _, _, err := ParseBinding(h, append(strings.Fields(words), "true")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	// Not in range: no group is to blame.
	if _, _, err := ParseBinding(h, []string{"-m", "9", "true"}); err == nil || strings.Contains(err.Error(), "control group") {
		t.Error(err)
	}
}
