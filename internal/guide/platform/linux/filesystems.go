package linux

import (
	"context"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// filesystems provides the file systems of directories named in guidance. The size is the block
// device's, which a copy also has.
var filesystems = platform.Source{
	Prefix: "filesystems",
	Sets:   []string{"filesystems"},
	Inputs: inputs("filesystems",
		fact.Input{Name: "*.mount", Type: fact.Text, Doc: "where the file system that holds the directory is mounted"},
		fact.Input{Name: "*.type", Type: fact.Text},
		fact.Input{Name: "*.device", Type: fact.Text, Doc: "block device; absent for network file systems"},
		fact.Input{Name: "*.device_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of the block device or partition"},
		fact.Input{Name: "*.rotational", Type: fact.Truth},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		mounts, unknown := s.Items("mount")
		if unknown != "" {
			t.Rest(unknown)
			return t
		}
		for _, dir := range directories {
			if st, err := s.Host.Files.Stat(dir); err != nil || !st.IsDir() {
				continue // even if an archive lacks the directory
			}
			holds := holder(dir, mounts)
			if holds == "" {
				continue
			}
			t.Add("filesystems", dir)
			in, of := "filesystems."+dir+".", "mount."+holds+"."
			t.Give(in+"mount", holds, s.Answer(of+"type").At)
			t.Put(s.Answer(of+"type"), in+"type")
			device := s.Answer(of + "device")
			t.Put(device, in+"device")
			if name, ok := device.Value.(string); ok {
				bytes, rotational := deviceFacts(s, name)
				t.Put(bytes, in+"device_bytes")
				t.Put(rotational, in+"rotational")
			}
		}
		return t
	},
}

// directories are the directories mentioned in the sources of rules.
var directories = []string{
	"/", "/var", "/var/log", "/var/lib/etcd", "/var/lib/containers", "/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet",
	"/var/lib/pgsql", "/var/lib/postgresql", "/var/lib/pulp", "/var/lib/qpidd",
}

// holder returns the mount point of a directory.
func holder(dir string, mounts []string) string {
	best := ""
	for _, m := range mounts {
		if (m == "/" || dir == m || strings.HasPrefix(dir, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// deviceFacts returns the size of a disk or partition, and whether the disk rotates.
func deviceFacts(s *platform.Subject, name string) (size, rotational fact.Answer) {
	disks, _ := s.Items("disk")
	for _, d := range disks {
		if d == name {
			return s.Answer("disk." + d + ".size_bytes"), s.Answer("disk." + d + ".rotational")
		}
		if !strings.HasPrefix(name, d) {
			continue
		}
		if a := s.Answer("disk." + d + ".partition." + name + ".size_bytes"); a.Value != nil {
			return a, s.Answer("disk." + d + ".rotational")
		}
	}
	return fact.Answer{}, fact.Answer{}
}
