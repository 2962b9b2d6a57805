package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// cgroupNode writes files of a machine.
func cgroupNode(t *testing.T, files map[string]string) host.Files {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host.Mounted(dir).Files
}

func stat(pid int, name string, flags uint64) string {
	return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 5\n", pid, name, flags)
}

func TestProcesses(t *testing.T) {
	all, err := Processes(cgroupNode(t, map[string]string{
		"/proc/2/stat":            "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5\n",
		"/proc/2/cgroup":          "0::/\n",
		"/proc/2/task/2/status":   "Name:\tkthreadd\nCpus_allowed_list:\t0-3\n",
		"/proc/70/stat":           stat(70, "a) R (b", 4194304),
		"/proc/70/cgroup":         "9:name=systemd:/x\n3:cpuset,cpu:/kubepods/podu/c:1\n0::/other\n",
		"/proc/70/task/70/status": "Cpus_allowed_list:\t1\n",
		"/proc/70/task/71/status": "Cpus_allowed_list:\t2-3\n",
		"/proc/80/cgroup":         "0::/ended/between\n",
		"/proc/90/stat":           stat(90, "unified", 0),
		"/proc/90/cgroup":         "0::/system.slice/sshd.service\n",
		"/proc/90/task/90/status": "Cpus_allowed_list:\t0\n",
		"/proc/sys/kernel/ostype": "Linux\n",
		"/proc/self-is-no/number": "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprintf("%d %q kernel=%t %s %s %d", p.PID, p.Name, p.Kernel, p.Group, p.Allowed(), len(p.Threads)))
	}
	want := `2 "kthreadd" kernel=true / 0-3 1
70 "a) R (b" kernel=false /kubepods/podu/c:1 1-3 2
90 "unified" kernel=false /system.slice/sshd.service 0 1`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

func TestProcessesRefuse(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"/proc/7/stat":          {"/proc/7/stat": "7 without\n"},
		"/proc/7/task/7/status": {"/proc/7/task/7/status": "Name: x\n"},
	} {
		tree := map[string]string{"/proc/7/stat": stat(7, "x", 0), "/proc/7/cgroup": "0::/\n", "/proc/7/task/7/status": "Cpus_allowed_list: 0\n"}
		for file, text := range files {
			tree[file] = text
		}
		if all, err := Processes(cgroupNode(t, tree)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v %v", name, all, err)
		}
	}
}

func TestHierarchies(t *testing.T) {
	const (
		one  = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,cpu\n"
		part = "34 31 0:31 /outer /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		two  = "24 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		none = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		mounts, group, file, text string
		version                   int
		cpus, wrong               string
	}{
		"version 1":         {none + one, "/kubepods/podu/c", "/sys/fs/cgroup/cpuset/kubepods/podu/c/cpuset.cpus", "1-2\n", 1, "1-2", ""},
		"version 2":         {two, "/kubepods.slice/x.scope", "/sys/fs/cgroup/kubepods.slice/x.scope/cpuset.cpus.effective", "3\n", 2, "3", ""},
		"both":              {two + one, "/a", "/sys/fs/cgroup/cpuset/a/cpuset.cpus", "0\n", 1, "0", ""},
		"a part of it":      {part, "/outer/a", "/sys/fs/cgroup/cpuset/a/cpuset.cpus", "0\n", 1, "0", ""},
		"another part":      {part, "/outermost/a", "/sys/fs/cgroup/cpuset/keep", "", 1, "", "not below /outer"},
		"out of namespace":  {two, "/../../a", "/sys/fs/cgroup/keep", "", 2, "", "is outside this process's cgroup namespace"},
		"without CPUs":      {two, "/a", "/sys/fs/cgroup/keep", "", 2, "", "cpuset.cpus.effective"},
		"no list":           {two, "/a", "/sys/fs/cgroup/a/cpuset.cpus.effective", "x", 2, "", "cpuset.cpus.effective"},
		"nothing mounted":   {none, "/a", "/x", "", 0, "", "no cpuset control groups are mounted"},
		"the mount is gone": {one, "/a", "/x", "", 0, "", "cpuset"},
	} {
		h, err := Find(cgroupNode(t, map[string]string{"/proc/1/mountinfo": c.mounts, c.file: c.text}))
		if c.version == 0 {
			if err == nil || !strings.Contains(err.Error(), c.wrong) && !strings.Contains(err.Error(), "mountinfo") {
				t.Errorf("%s: %v %v", name, h, err)
			}
			continue
		}
		if err != nil || h.Version != c.version {
			t.Errorf("%s: %+v %v", name, h, err)
			continue
		}
		cpus, file, err := h.CPUs(c.group)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %s %v", name, cpus, err)
			}
			continue
		}
		if err != nil || cpus.String() != c.cpus || file != c.file {
			t.Errorf("%s: %s of %s, %v", name, cpus, file, err)
		}
	}
}

// TestGroups tests the names that the OpenShift guide shows, and those of containerd and Docker.
func TestGroups(t *testing.T) {
	const uid = "d69c01f8-6b74-11e9-ac0f-0a2b62178a22"
	const id = "b5437308f1ad1a7db0574c542bdf08563b865c0345c86e9585f8c0b0a655612c"
	for group, want := range map[string]string{
		"/kubepods.slice/kubepods-podd69c01f8_6b74_11e9_ac0f_0a2b62178a22.slice/crio-" + id + ".scope":                                                "true true Guaranteed",
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podd69c01f8_6b74_11e9_ac0f_0a2b62178a22.slice/cri-containerd-" + id + ".scope": "true true BestEffort",
		"/kubepods/pod" + uid + "/" + id:                      "true true Guaranteed",
		"/kubepods/burstable/pod" + uid + "/" + id + "/inner": "true true Burstable",
		"/fleet.slice/fleet-kubepods.slice/fleet-kubepods-burstable.slice/fleet-kubepods-burstable-podd69c01f8_6b74_11e9_ac0f_0a2b62178a22.slice/docker-" + id + ".scope": "true true Burstable",
		"/kubepods/pod" + uid + "1/x" + id: "false false Guaranteed",
		"/system.slice/containerd.service": "false false ",
		"/":                                "false false ",
	} {
		if got := fmt.Sprint(CgroupOf(group, uid), " ", ContainerCgroup(group, id), " ", Class(group)); got != want {
			t.Errorf("%s: %s, want %s", group, got, want)
		}
	}
	if ContainerCgroup("/a", "") || CgroupOf("/pod", "") {
		t.Error("a container without a number is everywhere")
	}
}
