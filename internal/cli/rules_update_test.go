package cli

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	internalupdate "fettle.dev/fettle/internal/update"
	"fettle.dev/fettle/profiles"
	"fettle.dev/fettle/rules"
)

// publisher signs updates in a directory.
type publisher struct {
	dir string
	key *ecdsa.PrivateKey
}

func newPublisher(t *testing.T, dir string) *publisher {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	p := &publisher{dir, key}
	if err == nil {
		err = os.WriteFile(p.file("release.pem"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *publisher) file(name string) string { return filepath.Join(p.dir, name) }

// publish writes a signed update, and returns its file.
func (p *publisher) publish(t *testing.T, name, number string, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	add := func(name, text string) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("update.yaml", "number: "+number+"\nnote: fewer handles\n")
	for name, text := range files {
		add(name, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	signature, err := p.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	name = p.file(name)
	for file, data := range map[string][]byte{name: b.Bytes(), name + ".sig": signature} {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// newer returns a file of the program with a text replaced.
func newer(t *testing.T, fsys fs.FS, name, old, text string) string {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q, %v", name, old, err)
	}
	return strings.Replace(string(b), old, text, 1)
}

// TestRulesUpdate: a signed update is staged, changes verdicts and plans once it is released, and no longer
// after it is withdrawn. What is not signed, damaged or older is refused, and changes nothing.
func TestRulesUpdate(t *testing.T) {
	p := newPublisher(t, t.TempDir())
	call := func(want int, args ...string) string {
		t.Helper()
		var out, said bytes.Buffer
		args = append(args, "--root", "../../testdata/hosts/kvm-guest.txt", "--state-dir", p.file("state"))
		if code := Main("test", args, &out, &said); code != want {
			t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out.String(), said.String())
		}
		return out.String()
	}
	files := map[string]string{
		"rules/linux.yaml":                  newer(t, rules.FS, "linux.yaml", "inputs: {waited: pressure.cpu_some_percent}\n  want: '50'", "inputs: {waited: pressure.cpu_some_percent}\n  want: '-1'"),
		"profiles/virtual-guest/tuned.conf": newer(t, profiles.FS, "virtual-guest/tuned.conf", "vm.swappiness=30", "vm.swappiness=1"),
	}
	update := p.publish(t, "update.zip", "7", files)
	key := "--key=" + p.file("release.pem")
	swappiness := func() string {
		t.Helper()
		var plan struct {
			Steps []struct {
				Setting string
				Want    string
			}
		}
		out := call(0, "diff", "virtual-guest", "--output", "json")
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			t.Fatal(err)
		}
		for _, s := range plan.Steps {
			if s.Setting == "sysctl:vm.swappiness" {
				return s.Want
			}
		}
		t.Fatalf("no swappiness in %s", out)
		return ""
	}

	call(4, "rules", "stage", update, "--key="+newPublisher(t, t.TempDir()).file("release.pem"))
	call(1, "rules", "staged")
	call(1, "rules", "release")
	var staged internalupdate.Changes
	if err := json.Unmarshal([]byte(call(0, "rules", "stage", update, key, "--output", "json")), &staged); err != nil {
		t.Fatal(err)
	}
	if staged.State != "staged" || staged.Number != 7 || len(staged.Verdicts) == 0 || len(staged.Profiles) != 1 || staged.Profiles[0] != (internalupdate.OptionChange{Profile: "virtual-guest", Section: "sysctl", Option: "vm.swappiness", Before: "30", After: "1"}) {
		t.Errorf("%+v", staged)
	}
	if v := staged.Verdicts[0]; v.ID != "T29" || v.Before != rule.Passed || v.After == rule.Passed {
		t.Errorf("%+v", v)
	}
	if got := swappiness(); got != "30" {
		t.Error("a staged update is in force: ", got)
	}
	call(0, "rules", "release")
	if got := swappiness(); got != "1" {
		t.Error("after the release: ", got)
	}
	if out := call(0, "check", "--explain", staged.Verdicts[0].ID); !strings.Contains(out, "wanted  ") {
		t.Error(out)
	}

	older := p.publish(t, "older.zip", "6", files)
	call(4, "rules", "stage", older, key)
	call(0, "rules", "stage", older, key, "--older")
	bad := p.publish(t, "bad.zip", "8", map[string]string{"rules/linux.yaml": "- id: X1\n"})
	call(1, "rules", "stage", bad, key)
	data, err := os.ReadFile(update)
	if err == nil {
		data[len(data)/2] ^= 1
		err = os.WriteFile(update, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	call(4, "rules", "stage", update, key)
	call(0, "rules", "withdraw")
	if got := swappiness(); got != "30" {
		t.Error("after the withdrawal: ", got)
	}
}
