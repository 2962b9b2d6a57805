package packaging

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/testkit/root"
)

func TestVersions(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                        "1.2.3",
		"v1.2.3-rc1":                    "1.2.3~rc1",
		"v1.2.3-4-gabcdef0":             "1.2.3+4.gabcdef0",
		"v1.2.3-dirty":                  "1.2.3+dirty",
		"v1.2.3-rc.2-4-gabcdef0-dirty":  "1.2.3~rc.2+4.gabcdef0.dirty",
		"nightly":                       "",
		"v1.2.3; rm -rf /":              "",
		"v1.2.3-rc1-and-something-else": "",
	} {
		out, err := exec.Command("./version", described).Output()
		if got := strings.TrimSpace(string(out)); got != want || (err == nil) == (want == "") {
			t.Errorf("%s: %q, %v, want %q", described, got, err, want)
		}
	}
}

// nfpmContent is one entry of contents in packaging/nfpm.
type nfpmContent struct {
	Src, Dst, Type, Packager string
}

// packageContents reads the contents of a package from its configuration for nfpm.
func packageContents(t *testing.T, name string) []nfpmContent {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Contents []nfpmContent }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Contents
}

// TestPackageHasTheEmbeddedFiles tests that the package installs each file that the program
// installs by itself (FS), and that no path belongs to TuneD's package.
func TestPackageHasTheEmbeddedFiles(t *testing.T) {
	contents := packageContents(t, "nfpm/fettle.yaml")
	err := fs.WalkDir(FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !slices.ContainsFunc(contents, func(c nfpmContent) bool {
			ok, err := filepath.Match(c.Src, name)
			return err == nil && ok
		}) {
			t.Errorf("%s is not in the package", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contents {
		if name := filepath.Base(c.Dst); strings.HasPrefix(filepath.Base(c.Src), "com.redhat.tuned.") && name != PolicyName+filepath.Ext(name) {
			t.Errorf("%s: want %s, because TuneD's package has the other name, and fettle tune --persist looks for this one", c.Dst, PolicyName)
		}
		if strings.HasPrefix(c.Dst, "/etc/") && c.Type != "config|noreplace" {
			t.Errorf("%s: an upgrade would overwrite what the administrator changed", c.Dst)
		}
	}
}

func TestScripts(t *testing.T) {
	for _, check := range [][]string{
		{"sh", "-n", "scripts/maintainer.sh"},
		{"bash", "-n", "build"},
		{"shellcheck", "build", "lint", "version", "../test/eslint/run", "kubectl_complete-fettle", "scripts/maintainer.sh"},
	} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not installed", check[0])
			continue
		}
		if out, err := exec.Command(check[0], check[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(check, " "), err, out)
		}
	}
}

// TestStoppedBuild tests that a build leaves no unfinished package if it is killed, or if nfpm fails,
// in the middle of one. The tools are stubs.
func TestStoppedBuild(t *testing.T) {
	for name, end := range map[string]string{"killed": "kill -TERM 0; sleep 60", "no space left": "exit 1"} {
		t.Run(name, func(t *testing.T) { testStoppedBuild(t, end) })
	}
}

// testStoppedBuild runs the build with an nfpm that writes the beginning of a package, and then end.
func testStoppedBuild(t *testing.T, end string) {
	dir := t.TempDir()
	stub := filepath.Join(dir, "go")
	if err := os.WriteFile(stub, []byte(`#!/bin/sh
case $1 in
run) for last; do :; done; mkdir "$last/man" "$last/completion"; : >"$last/man/fettle.8" ;;
tool) echo "$0" ;;
build) while [ "$1" != -o ]; do shift; done; : >"$2" ;;
package) for last; do :; done; echo half >"$last/fettle_1_$ARCH.deb"; eval "$END" ;;
esac
`), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	cmd := exec.Command("./build", out, "arm64")
	cmd.Env = append(os.Environ(), "GO="+stub, "END="+end, "PACKAGES=fettle", "VERSION=v1.0.0", "SOURCE_DATE_EPOCH=1700000000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), "fettle for arm64") {
		t.Fatalf("not stopped while it packs: %v\n%s", err, text)
	}
	left, err := os.ReadDir(out)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// build builds the package fettle for amd64 in both formats and returns their directory.
func build(t *testing.T, version string, env ...string) string {
	t.Helper()
	root.Real(t, "builds packages")
	dir := t.TempDir()
	cmd := exec.Command("./build", dir, "amd64")
	cmd.Env = append(append(os.Environ(), "PACKAGES=fettle", "VERSION="+version, "GOFLAGS=-trimpath -pgo=off", "SOURCE_DATE_EPOCH=1700000000"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packaging/build: %v\n%s", err, out)
	}
	return dir
}

// TestCockpitLint tests that the linters find no error in the package of the page.
func TestCockpitLint(t *testing.T) {
	root.Real(t, "builds packages")
	for _, program := range []string{"lintian", "rpmlint", "cpio"} {
		if _, err := exec.LookPath(program); err != nil {
			root.Missing(t, "%s is not installed; run: apt-get install --no-install-recommends lintian rpmlint cpio", program)
		}
	}
	if out, err := exec.Command("./lint", build(t, "v1.0.0", "PACKAGES=cockpit-fettle")).CombinedOutput(); err != nil {
		t.Errorf("packaging/lint: %v\n%s", err, out)
	}
}

// packageFile returns the only file of a directory with this suffix.
func packageFile(t *testing.T, dir, suffix string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files %s in %s, %v", len(files), suffix, dir, err)
	}
	return files[0]
}

// TestReproducible tests that the same tree and SOURCE_DATE_EPOCH give the same bytes, and that
// the linters of both formats find no error.
func TestReproducible(t *testing.T) {
	first := twoVersions(t)
	dir := build(t, "v1.0.0", "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "HOSTNAME=elsewhere")
	for _, suffix := range []string{".deb", ".rpm"} {
		a, errA := os.ReadFile(filepath.Join(first, "1"+suffix))
		b, errB := os.ReadFile(packageFile(t, dir, suffix))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: two builds differ (%d and %d bytes, %v, %v)", suffix, len(a), len(b), errA, errB)
		}
	}
	if list, err := exec.Command("dpkg-deb", "--contents", packageFile(t, dir, ".deb")).Output(); err != nil || strings.Count(string(list), " 2023-11-14 22:13 ") != strings.Count(string(list), "\n") {
		t.Errorf("a file has another time than SOURCE_DATE_EPOCH: %v\n%s", err, list)
	}
	// The help names the pages that the package has.
	tree := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "--extract", packageFile(t, dir, ".deb"), tree).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for verb, page := range map[string]string{"tune": "tune-and-undo.md.gz", "version": "output.md.gz", "bench etcd": "bench-etcd.md"} {
		help, err := exec.Command(filepath.Join(tree, "usr/bin/fettle"), append(strings.Fields(verb), "--help")...).Output()
		if want := "\nManual: " + filepath.Join(tree, "usr/share/doc/fettle", page) + "\n"; err != nil || !strings.Contains(string(help), want) {
			t.Errorf("fettle %s --help: %v, want %s in\n%s", verb, err, want, help)
		}
	}
	for _, program := range []string{"lintian", "rpmlint", "cpio"} {
		if _, err := exec.LookPath(program); err != nil {
			root.Missing(t, "%s is not installed; run: apt-get install --no-install-recommends lintian rpmlint cpio", program)
		}
	}
	if out, err := exec.Command("./lint", dir).CombinedOutput(); err != nil {
		t.Errorf("packaging/lint: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
