package update

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/testkit/root"
)

// archive returns a ZIP file of names and contents.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParse(t *testing.T) {
	const number = "number: 2\n"
	for name, c := range map[string]struct {
		files []string
		fault string
	}{
		"both":              {[]string{about, number, "rules/linux.yaml", "[]", "profiles/web/tuned.conf", "[main]"}, ""},
		"directories":       {[]string{about, number, "rules/", "", "rules/linux.yaml", "[]"}, ""},
		"no description":    {[]string{"rules/linux.yaml", "[]"}, about},
		"no number":         {[]string{about, "note: x\n", "rules/linux.yaml", "[]"}, "number"},
		"an unknown field":  {[]string{about, "numbr: 2\n", "rules/linux.yaml", "[]"}, "numbr"},
		"nothing in it":     {[]string{about, number}, "want a number"},
		"a script":          {[]string{about, number, "profiles/web/script.sh", "x"}, "script.sh"},
		"a way out":         {[]string{about, number, "rules/../../x.yaml", "x"}, "x.yaml"},
		"an absolute path":  {[]string{about, number, "/etc/passwd", "x"}, "/etc/passwd"},
		"twice":             {[]string{about, number, "rules/a.yaml", "x", "rules/a.yaml", "y"}, "twice"},
		"too large":         {[]string{about, number, "rules/a.yaml", strings.Repeat("x", mostBytes+1)}, "MiB"},
		"the parent itself": {[]string{about, number, "profiles/../tuned.conf", "x"}, "tuned.conf"},
	} {
		u, err := Parse(archive(t, c.files...))
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, %v; want %q", name, u, err, c.fault)
		}
	}
	if _, err := Parse([]byte("PK")); err == nil {
		t.Error("two bytes are an update")
	}
}

func TestOverlay(t *testing.T) {
	u, err := Parse(archive(t, about, "number: 1\n", "profiles/web/tuned.conf", "newer", "profiles/db/tuned.conf", "new"))
	if err != nil {
		t.Fatal(err)
	}
	own := fstest.MapFS{"web/tuned.conf": {Data: []byte("old")}, "mail/tuned.conf": {Data: []byte("own")}}
	both := u.Profiles(own)
	for name, want := range map[string]string{"web": "newer", "db": "new", "mail": "own"} {
		if text, err := fs.ReadFile(both, name+"/tuned.conf"); string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	list, err := fs.ReadDir(both, ".")
	if err != nil || len(list) != 3 || list[0].Name() != "db" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := fs.ReadFile(both, "none/tuned.conf"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if none := (*Update)(nil).Profiles(own); none == nil {
		t.Error("no profiles without an update")
	}
}

// keyOf returns a key as it is read from a PEM file.
func keyOf(t *testing.T, public any) Key {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSigner(t *testing.T) {
	data := []byte("update")
	sum := sha256.Sum256(data)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	public, ed, _ := ed25519.GenerateKey(rand.Reader)
	byEC, _ := ec.Sign(rand.Reader, sum[:], crypto.SHA256)
	byRSA, _ := rs.Sign(rand.Reader, sum[:], crypto.SHA256)
	all := []Key{keyOf(t, ec.Public()), keyOf(t, rs.Public()), keyOf(t, public)}
	for name, signature := range map[string][]byte{"ecdsa": byEC, "rsa": byRSA, "ed25519": ed25519.Sign(ed, data), "base64": []byte(base64.StdEncoding.EncodeToString(byEC) + "\n")} {
		if _, err := signer(all, data, signature); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := signer(all, []byte("updatf"), signature); !errors.Is(err, ErrSignature) {
			t.Errorf("%s of other data: %v", name, err)
		}
		if _, err := signer(nil, data, signature); !errors.Is(err, ErrSignature) {
			t.Errorf("%s without keys: %v", name, err)
		}
	}
}

// TestOpenSSL: the signatures of openssl's own commands are accepted, as the manual shows them.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		root.Missing(t, "openssl")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "u.zip"), archive(t, about, "number: 1\n", "rules/a.yaml", "[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, commands := range map[string]string{
		"ECDSA":   "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k.pem && openssl dgst -sha256 -sign k.pem -out u.zip.sig u.zip",
		"RSA":     "openssl genpkey -algorithm RSA -out k.pem && openssl dgst -sha256 -sign k.pem -out u.zip.sig u.zip",
		"Ed25519": "openssl genpkey -algorithm ED25519 -out k.pem && openssl pkeyutl -sign -rawin -inkey k.pem -in u.zip -out u.zip.sig",
	} {
		c := exec.Command("sh", "-ec", commands+" && openssl pkey -in k.pem -pubout -out pub.pem")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "pub.pem"))
		if err != nil {
			t.Fatal(err)
		}
		k, err := ParseKey("pub.pem", text)
		if err != nil {
			t.Fatal(err)
		}
		if _, by, err := Read(filepath.Join(dir, "u.zip"), []Key{k}); err != nil || by.File != "pub.pem" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStore also repeats a release after which the staged update was not removed.
func TestStore(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "state")}
	if u, err := s.Released(); u != nil || err != nil {
		t.Fatal(u, err)
	}
	if err := s.Release(); !errors.Is(err, fs.ErrNotExist) {
		t.Error("released without a staged one: ", err)
	}
	data := archive(t, about, "number: 5\n", "rules/a.yaml", "[]")
	for _, step := range []func() error{
		func() error { return s.Stage(data) }, s.Release,
		func() error { return s.Stage(data) }, s.Release,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	u, err := s.Released()
	if err != nil || u == nil || u.Number != 5 {
		t.Fatal(u, err)
	}
	if st, err := os.Stat(s.file(released)); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
	if u, err := s.Staged(); u != nil || err != nil {
		t.Error("still staged: ", u, err)
	}
	if err := os.Chmod(s.file(released), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Released(); !errors.Is(err, profile.ErrUntrusted) {
		t.Error("writable for others: ", err)
	}
	if err := s.Withdraw(); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Released(); u != nil || err != nil {
		t.Error(u, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(archive(f, about, "number: 1\n", "rules/a.yaml", "[]", "profiles/web/tuned.conf", "[main]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := Parse(data)
		if err != nil {
			return
		}
		files, err := u.Rules()
		for _, r := range files {
			if strings.Contains(r.Name, "/") || len(r.Text) > mostBytes+1 {
				t.Errorf("%q of %d bytes, %v", r.Name, len(r.Text), err)
			}
		}
		for _, name := range u.ProfileNames() {
			if strings.ContainsAny(name, "/") || name == ".." || name == "." {
				t.Errorf("profile %q", name)
			}
		}
	})
}
