package server

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/internal/unit"
)

func TestHugePagesExamples(t *testing.T) {
	f := sizing.Figures(t)
	for _, tt := range []struct {
		said  string
		want  map[string]string
		files map[string]string // part of their content
	}{
		// 16 GiB are 8192 pages (004); 1024 pages are 2 GiB (002, 13.3).
		{"size=16GiB", map[string]string{"pages/pages": "8192", "pages/reserved_bytes": "17179869184", "limits/memlock": "17179869184"}, map[string]string{"etc/sysctl.d/60-hugepages.conf": "\nvm.nr_hugepages = 8192\n"}},
		{"size=2GiB for=pod", map[string]string{"pages/pages": "1024", "pod/hugepages-2Mi": "2Gi"}, map[string]string{"hugepages_tuning.yaml": "vm.nr_hugepages=1024\n", "hugepages-pod.yaml": "hugepages-2Mi: 2Gi\n"}},
		{"size=100MiB for=pod", map[string]string{"pages/pages": "50", "pod/hugepages-2Mi": "100Mi"}, nil},
		{"size=16GiB page=1G", map[string]string{"pages/pages": "16", "kernel/arguments": "default_hugepagesz=1G hugepagesz=1G hugepages=16"}, nil},
		{"size=16GiB page=1G for=pod group=1001", map[string]string{"pod/hugepages-1Gi": "16Gi"}, map[string]string{"50-worker-hugepages.yaml": "- hugepages=16\n", "hugepages-pod.yaml": "supplementalGroups:\n      - 1001\n", "hugepages_tuning.yaml": "[sysctl]\n        vm.hugetlb_shm_group=1001\n"}},
		{"size=2GiB for=pod group=1001", nil, map[string]string{"hugepages_tuning.yaml": "vm.nr_hugepages=1024\n        vm.hugetlb_shm_group=1001\n"}},
		{"size=16GiB nodes-numa=2", map[string]string{"pages/node0": "4096", "pages/node1": "4096"}, map[string]string{"etc/tmpfiles.d/hugepages.conf": "w /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 4096\n"}},
		{"size=5GiB page=1G nodes-numa=2", map[string]string{"pages/node0": "3", "pages/node1": "2", "kernel/arguments": "default_hugepagesz=1G hugepagesz=1G hugepages=0:3,1:2"}, nil},
		{"size=1500KiB", map[string]string{"pages/pages": "1"}, nil},
		{"size=8GiB for=postgresql group=26 ram=32GiB", map[string]string{"postgresql/huge_pages": "on", "kernel/vm.hugetlb_shm_group": "26"}, map[string]string{"etc/sysctl.d/60-hugepages.conf": "vm.nr_hugepages = 4096\nvm.hugetlb_shm_group = 26\n", "etc/systemd/system/postgresql.service.d/hugepages.conf": "[Service]\nLimitMEMLOCK=8589934592\n"}},
		{"size=8GiB page=1G for=postgresql", map[string]string{"postgresql/huge_page_size": "1GB"}, nil},
	} {
		t.Run(tt.said, func(t *testing.T) {
			r := sizing.Sized(t, f, NewHugePages(), sizing.Words(tt.said)...)
			sizing.Want(t, r, tt.want)
			for name, part := range tt.files {
				if a := r.Artefact(name); a == nil || !strings.Contains(a.Content, part) {
					t.Errorf("%s has no %q: %+v", name, part, a)
				}
			}
		})
	}
}

func TestHugePagesBadInput(t *testing.T) {
	sizing.Refused(t, NewHugePages, sizing.Words, map[string]string{
		"":                               "not given",
		"size=0":                         "less than",
		"size=lots":                      "unknown unit",
		"size=1EiB":                      "more than",
		"size=1GiB page=4K":              "want 2M, 1G",
		"size=16GiB ram=16GiB":           "leave nothing",
		"size=15872MiB ram=16GiB":        "leave 512MiB of 16GiB",
		"size=16":                        "16 has no unit; did you mean 16GiB? want 1MiB to 64TiB",
		"size=1GiB nodes-numa=0":         "less than 1",
		"size=1GiB group=-1":             "less than 0",
		"size=1GiB service=../x.service": "not the name of a service",
		"size=1GiB for=redis":            "want program, postgresql, pod",
	})
}

// The nodes' pages are all of the pages, as even as they come; more memory never
// needs fewer.
func TestSplit(t *testing.T) {
	r := guidesizing.NewResult(sizing.Figures(t), "", "")
	rnd := rand.New(rand.NewPCG(3, 4))
	last := 0
	for i := range 2000 {
		bytes := unit.Size(i*i+1) * 3 * unit.MiB / 2
		p, err := CountHugePages(r, bytes, "2M", 1+rnd.IntN(16))
		if err != nil {
			t.Fatal(err)
		}
		sum, low, high := 0, p.Each[0], p.Each[0]
		for _, n := range p.Each {
			sum, low, high = sum+n, min(low, n), max(high, n)
		}
		if sum != p.Pages || high-low > 1 || p.Bytes() < bytes || p.Bytes()-bytes >= p.Page || p.Pages < last {
			t.Fatalf("%s: %+v", bytes, p)
		}
		last = p.Pages
	}
}

func FuzzHugePages(f *testing.F) {
	sizing.Fuzz(f, NewHugePages, []string{"size=16GiB", "size=5GiB page=1G nodes-numa=2 for=pod group=7", "size=1 ram=2MiB for=postgresql service=a.service", "size=64TiB nodes-numa=1024"}, func(t *testing.T, r *guidesizing.Result) {
		for _, a := range r.Files {
			if !strings.HasPrefix(a.Name, "etc/") && !slices.Contains([]string{"hugepages_tuning.yaml", "50-worker-hugepages.yaml", "hugepages-pod.yaml"}, a.Name) {
				t.Fatal(a.Name)
			}
		}
	})
}
