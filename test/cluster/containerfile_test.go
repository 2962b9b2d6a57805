package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/kube/deploy"
)

// readDeployed has the Containerfile of kube/deploy/.
func readDeployed(t *testing.T) string {
	t.Helper()
	text, err := deploy.FS.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestContainerfile(t *testing.T) {
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	i, err := readContainerfile(readDeployed(t), map[string]string{"bin/kubectl-fettle": program})
	if err != nil {
		t.Fatal(err)
	}
	labels, _ := i.config["Labels"].(map[string]string)
	command, _ := i.config["Entrypoint"].([]string)
	if len(i.files) != 1 || i.files[0].name != "kubectl-fettle" || i.files[0].mode != 0o755 || string(i.files[0].content) != "x" ||
		i.config["User"] != "65534:65534" || !slices.Equal(command, []string{"/kubectl-fettle"}) || labels["org.opencontainers.image.title"] != "kubectl-fettle" || len(labels) != 2 {
		t.Errorf("%+v", i)
	}
	for text, want := range map[string]string{
		"COPY a /a\n":                              "line 1: COPY before FROM",
		"FROM debian\n":                            "line 1: only one FROM scratch",
		"FROM scratch\nRUN x\n":                    "line 2: RUN is not known here",
		"FROM scratch\nCOPY b /b\n":                "line 2: the build's context has no b",
		"FROM scratch\nCOPY --chown=0 a /a\n":      "line 2: want COPY FILE /FILE",
		"FROM scratch\nLABEL a=b\n":                "line 2: want LABEL",
		"FROM scratch\nCOPY a /a\n":                "nothing is copied to the entry point []",
		"FROM scratch\nENTRYPOINT a\n":             "line 2: ",
		"FROM scratch\n\n# x\nENTRYPOINT [\"/a\"]": "nothing is copied to the entry point [/a]",
	} {
		if _, err := readContainerfile(text, map[string]string{"a": program}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
