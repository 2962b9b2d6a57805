package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// inContainer is a word of a container's command as its program gets it, where the
// variable HOME is set: the API's reference of Container.command.
func inContainer(word string) string {
	var out strings.Builder
	for i := 0; i < len(word); i++ {
		rest := word[i:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			out.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(HOME)"):
			out.WriteString("/root")
			i += len("$(HOME)") - 1
		default:
			out.WriteByte(word[i])
		}
	}
	return out.String()
}

// TestManifestWords: what the command line says is what the program in the pod is told,
// whatever variables its container has.
func TestManifestWords(t *testing.T) {
	dir := t.TempDir()
	urls := []string{"http://web1.example/$(HOME)?a=$$1"}
	said := []string{"--header=X-Price: $$5 $(HOME)", "--body={\"path\":\"$(HOME)$\",\"n\":\"$$$(HOME)$$$\"}"}
	args := append([]string{"load", "http", "--manifest", "--image", "fettle:1", "--rate", "1/s", "--allow", "web1.example:80"}, append(said, urls...)...)
	out, talk, code := mainWith(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, talk)
	}
	var j job
	if err := yaml.Unmarshal([]byte(out), &j); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var words []string
	for _, word := range j.Spec.Template.Spec.Containers[0].Args {
		words = append(words, inContainer(word))
	}
	for _, want := range append(said, urls...) {
		if !slices.Contains(words, want) {
			t.Errorf("%q is none of %q", want, words)
		}
	}
}

// TestManifestFiles: files that no secret could be made of are refused.
func TestManifestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"most": 1 << 20, "much": 3 << 20, "half": 600 << 10, "other": 600 << 10, "two words": 1} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files []string
		want  string // "" is taken
	}{
		{[]string{"--urls", "most"}, ""},
		{[]string{"--body", "@half", "--urls", "half"}, ""}, // one file
		{[]string{"--urls", "much"}, "much: 3,145,728 bytes in total, but a secret holds at most 1,048,576"},
		{[]string{"--urls", "half", "--header", "@other"}, "other, half: 1,228,800 bytes in total"},
		{[]string{"--urls", "none"}, "none: no such file or directory"},
		{[]string{"--urls", "."}, "is not a regular file"},
		{[]string{"--urls", "two words"}, "two words: file names in a secret may contain only letters"},
	} {
		args := []string{"load", "http", "--manifest", "--image", "fettle:1", "--rate", "1/s"}
		for _, word := range c.files {
			switch name, at := strings.CutPrefix(word, "@"); {
			case strings.HasPrefix(word, "--"):
			case at:
				word = "@" + filepath.Join(dir, name)
			default:
				word = dir + "/" + word
			}
			args = append(args, word)
		}
		out, talk, code := mainWith(t, t.TempDir(), args...)
		switch {
		case c.want == "" && (code != 0 || !strings.Contains(out, "kind: Job")):
			t.Errorf("%q: exit %d: %s", c.files, code, talk)
		case c.want != "" && (code != 2 || out != "" || !strings.Contains(talk, c.want)):
			t.Errorf("%q: exit %d, %q: %s", c.files, code, out, talk)
		}
	}
}

func mainWith(t *testing.T, dir string, args ...string) (out, talk string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main("test", append([]string{"--state-dir", filepath.Join(dir, "state")}, args...), &o, &e)
	return o.String(), e.String(), code
}
