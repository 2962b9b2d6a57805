package cli

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// TestServerThatTurnsAway tests that every verb reports in the same way an API server that does not
// know the user, denies access to a user who is not in the kubeconfig, or is queried without TLS:
// which server, and what to do.
func TestServerThatTurnsAway(t *testing.T) {
	pod, objects := manifest(t, nextPod), filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(objects, []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\nspec: {kubeletConfig: {maxPods: 100}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	answering := func(code int, reason, message string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	unauthorized := answering(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	forbidden := answering(http.StatusForbidden, "Forbidden", `forbidden: User "system:anonymous" cannot get path "/api"`)
	secured := httptest.NewUnstartedServer(http.NotFoundHandler())
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	defer secured.Close()
	plain := strings.Replace(secured.URL, "https", "http", 1)
	all := []string{"status", "check", "health", "scale plan a --to 3", "scale execute a --to 3 --yes", "kubelet plan " + objects, "load plan", "pod verify x", "pod explain " + pod + " --root " + vm(t), "uninstall --yes", "operator"}
	for _, c := range []struct{ server, user, want string }{
		{unauthorized, "u", "does not accept these credentials (401 Unauthorized)\nkubectl fettle: check that the token or client certificate belongs to this cluster and has not expired; kubectl auth whoami shows the user\n"},
		{unauthorized, "nobody", `does not accept these credentials (401 Unauthorized): context "here" names user "nobody", which is not in the kubeconfig; it has u` + "\nkubectl fettle: kubectl config view"},
		{forbidden, "nobody", `denied the request (403 Forbidden): context "here" names user "nobody", which is not in the kubeconfig; it has u` + "\nkubectl fettle: kubectl config view"},
		{plain, "u", "requires TLS\nkubectl fettle: its address in the kubeconfig must begin with https://\n"},
	} {
		file := filepath.Join(t.TempDir(), "config")
		text := fmt.Sprintf("{current-context: here, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: here, context: {cluster: c, user: %s}}], users: [{name: u, user: {token: old}}]}", c.server, c.user)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, words := range all {
			code, _, said := run(t, append([]string{"--kubeconfig", file}, strings.Fields(words)...)...)
			if want := "kubectl fettle: the API server " + c.server + ` (context "here" of ` + file + ") " + c.want; code != ui.Failed || !strings.Contains(said, want) {
				t.Errorf("%s: exit code %d, said %q, want %q", words, code, said, want)
			}
		}
	}
	// Who is named and may not is told what the server says, where client-go has read it.
	for words, want := range map[string]string{
		"status":              "the API server " + forbidden + " (of --server) denied the list of API kinds (403 Forbidden)\nkubectl fettle: kubectl auth whoami shows the user, kubectl auth can-i --list its permissions\n",
		"scale plan a --to 3": `cannot list machinesets of machine.openshift.io`,
		"check":               `the API server answers 403: forbidden: User "system:anonymous"`,
	} {
		if code, _, said := run(t, append(strings.Fields(words), "--server="+forbidden)...); code != ui.Failed || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", words, code, said, want)
		}
	}
}
