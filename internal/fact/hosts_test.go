package fact

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
)

var update = flag.Bool("update", false, "write the golden files of testdata/hosts anew")

const hostsDir = "../../testdata/hosts"

// TestHosts reads the machines of testdata/hosts and compares the summary and
// the JSON with reviewed output.
func TestHosts(t *testing.T) {
	archives, err := filepath.Glob(hostsDir + "/*.txt")
	if err != nil || len(archives) < 6 {
		t.Fatalf("%d archives in %s, %v", len(archives), hostsDir, err)
	}
	for _, name := range archives {
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		t.Run(base, func(t *testing.T) {
			h, err := host.OpenRoot(name)
			if err != nil {
				t.Fatal(err)
			}
			f := Collect(h)
			var brief strings.Builder
			for _, l := range Brief(f) {
				fmt.Fprintf(&brief, "%-11s %s\n", l.Label, l.Text)
			}
			golden(t, filepath.Join(hostsDir, base+".brief"), brief.String())
			golden(t, filepath.Join(hostsDir, base+".facts.json"), settled(t, f))
			for _, r := range f.Collectors {
				if r.Error != "" {
					t.Error(r.Error)
				}
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v (go test ./internal/fact -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// An archive of an archived machine gives the same facts.
func TestArchiveOfAnArchive(t *testing.T) {
	h, err := host.OpenRoot(hostsDir + "/intel-2s-bare-metal.txt")
	if err != nil {
		t.Fatal(err)
	}
	first, recording := Archive(h)
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settled(t, first), settled(t, Collect(open(t, text.String())))); diff != "" {
		t.Error(diff)
	}
}

// An archive gives the same facts as the directory that it describes.
func TestDirectoryIsTheEqualOfTheArchive(t *testing.T) {
	name := hostsDir + "/aws-nitro.txt"
	h, err := host.OpenRoot(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, h, dir, "/")
	if diff := cmp.Diff(settled(t, Collect(h)), settled(t, Collect(host.Mounted(dir)))); diff != "" {
		t.Error(diff)
	}
}

// unpack writes an archived machine into a directory.
func unpack(t *testing.T, h *host.Host, dir, p string) {
	t.Helper()
	list, err := h.Files.ReadDir(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		q := filepath.Join(p, d.Name())
		at := filepath.Join(dir, q)
		switch {
		case d.IsDir():
			err = os.Mkdir(at, 0o755)
			unpack(t, h, dir, q)
		case d.Type()&os.ModeSymlink != 0:
			to, lerr := h.Files.Readlink(q)
			if lerr != nil {
				t.Fatal(lerr)
			}
			err = os.Symlink(to, at)
		default:
			b, rerr := h.Files.ReadFile(q)
			if rerr == nil {
				err = os.WriteFile(at, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
