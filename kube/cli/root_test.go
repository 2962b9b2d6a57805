package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fettle.dev/fettle/internal/ui"
)

// run runs a command line without any cluster.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{"KUBECONFIG": filepath.Join(home, "none"), "HOME": home, "KUBERNETES_SERVICE_HOST": ""} {
		t.Setenv(name, value)
	}
	var o, e bytes.Buffer
	code = runUntil(t.Context(), "1.2.3", args, &o, &e)
	if (code == ui.Refused || code == ui.Busy) && !regexp.MustCompile(`kubectl |etcdctl `).MatchString(strings.ReplaceAll(e.String(), "kubectl fettle: ", "")) {
		t.Errorf("%s: refused without a command: %s", strings.Join(args, " "), e.String())
	}
	return code, o.String(), e.String()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string // in what is printed or said
	}{
		{"--version", ui.Done, "kubectl-fettle 1.2.3\n"},
		{"--help", ui.Done, "kubectl fettle COMMAND [flags]"},
		{"help exit-codes", ui.Done, "  130  interrupted, undone\n"},
		{"schemas", ui.Usage, `unknown command "schemas" (did you mean "schema"?)`},
		{"laod", ui.Usage, `unknown command "laod" (did you mean "load"?)`},
		{"load rnu", ui.Usage, `unknown command "rnu" (did you mean "run"?)`},
		{"kubelet paln x", ui.Usage, `unknown command "paln" (did you mean "plan"?)`},
		{"pod verfy x", ui.Usage, `unknown command "verfy" (did you mean "verify"?)`},
		{"scale exceute", ui.Usage, `unknown command "exceute" (did you mean "execute"?)`},
		{"schema error extra", ui.Usage, "run: kubectl fettle schema error"},
		{"kubelet plan", ui.Usage, "kubectl fettle: FILE is missing: want kubectl fettle kubelet plan FILE\nkubectl fettle: for example: kubectl fettle kubelet plan kubeletconfig.yaml\n"},
		{"kubelet plan nowhere.yaml", ui.Usage, "nowhere.yaml: no such file"},
		{"uninstall now", ui.Usage, `unexpected argument "now"; want kubectl fettle uninstall`},
		{"check foo", ui.Usage, `unexpected argument "foo"; want kubectl fettle check`},
		{"help foo", ui.Usage, "unknown command \"foo\"\n"},
		{"scale plan a --to x", ui.Usage, "--to \"x\": want a whole number\nkubectl fettle: for example: kubectl fettle scale plan a --to=3"},
		{"scale plan a --to 3 --patience soon", ui.Usage, `--patience "soon": want a time such as 30s or 5m`},
		{"uninstall --timeout 0s", ui.Usage, `--timeout "0s": want 1s to 168h`},
		{"uninstall", ui.Usage, "name a kubeconfig file with --kubeconfig, or set KUBECONFIG"},
		{"schema --no", ui.Usage, "unknown flag: --no"},
		{"schema nothing", ui.Usage, "kubectl fettle schema lists all kinds"},
		{"operator --allow scripts", ui.Usage, `--allow "scripts": unknown word "scripts"; want `},
		{"operator --adopt=everything", ui.Usage, `"everything": want all, or one or more of tuned, kubelets, machines`},
		{"operator --adopt tuned", ui.Usage, `unexpected argument "tuned"; options need an equals sign: --adopt=tuned`},
		{"operator --adopt --lease 1s", ui.Usage, `--lease "1s": want 3s to 24h`},
		{"operator --lease 1s", ui.Usage, `--lease "1s": want 3s to 24h`},
		{"operator --machine-namespace ,", ui.Usage, "--machine-namespace: want comma-separated namespaces"},
		{"operator", ui.Usage, "name a kubeconfig file with --kubeconfig, or set KUBECONFIG"},
		{"operator now", ui.Usage, `unexpected argument "now"`},
		{"status --allow x", ui.Usage, `--allow "x": unknown word "x"; want `},
		{"status", ui.Usage, "no cluster: KUBECONFIG names "},
		{"schema --output xml", ui.Usage, `--output "xml": want one of table, json, yaml, markdown`},
	} {
		code, out, errs := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, printed %q, said %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// TestKubeconfigsThatNameNoCluster tests that the message names the file and what it lacks.
func TestKubeconfigsThatNameNoCluster(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ text, args, want string }{
		{"", "", "it contains no clusters and no contexts"},
		{"{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: c}}]}", "", "no current context; choose one with --context: a"},
		{"{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: c}}]}", " --context b", `context "b" not found; the kubeconfig's contexts: a`},
		{"{current-context: a, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: d}}]}", "", `context "a" names cluster "d", which is not in the kubeconfig`},
		{"{current-context: a, contexts: [{name: a, context: {user: u}}]}", "", `context "a" names no cluster`},
		{"{current-context: a, clusters: [{name: c, cluster: {insecure-skip-tls-verify: true}}], contexts: [{name: a, context: {cluster: c}}]}", "", `cluster "c" has no server address`},
	} {
		file := filepath.Join(dir, strings.Repeat("x", i+1))
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, said := run(t, strings.Fields("status --kubeconfig "+file+c.args)...)
		if want := "no cluster: kubeconfig " + file + ": " + c.want + "\n"; code != ui.Usage || !strings.Contains(said, want) {
			t.Errorf("%s%s: exit code %d, said %q, want %q", c.text, c.args, code, said, want)
		}
	}
	// Files that are named in the environment and that there are not are named; else there is
	// none at all.
	t.Setenv("HOME", dir)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for named, want := range map[string]string{
		"": "no cluster: no kubeconfig found, and this is not a pod\n",
		filepath.Join(dir, "gone") + ":" + filepath.Join(dir, "lost"): "no cluster: KUBECONFIG names " + dir + "/gone, " + dir + "/lost, which does not exist, and this is not a pod\n",
	} {
		t.Setenv("KUBECONFIG", named)
		var out, said bytes.Buffer
		if code := runUntil(t.Context(), "1", []string{"status"}, &out, &said); code != ui.Usage || !strings.Contains(said.String(), want) {
			t.Errorf("%q: exit code %d, said %q, want %q", named, code, &said, want)
		}
	}
	t.Setenv("KUBECONFIG", "")
	manifest := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\nspec: {kubeletConfig: {maxPods: 500}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if code := runUntil(t.Context(), "1", []string{"kubelet", "plan", manifest}, &out, &said); code != ui.Usage || !strings.Contains(said.String(), "kubectl fettle check --root DIR audits the KubeletConfig objects") {
		t.Errorf("%d %q", code, &said)
	}
	if code, _, said := run(t, "status", "--kubeconfig", os.DevNull); code != ui.Usage || !strings.Contains(said, "kubeconfig /dev/null: it contains no clusters") {
		t.Errorf("%d %q", code, said)
	}
}

// TestServerThatIsAway tests that every verb reports an unreachable API server in the same way.
func TestServerThatIsAway(t *testing.T) {
	pod, objects := manifest(t, nextPod), filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(objects, []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\nspec: {kubeletConfig: {maxPods: 100}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer trusted.Close()
	trusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, c := range []struct{ server, want string }{
		{"https://127.0.0.1:1", "cannot be reached: connect: connection refused\nkubectl fettle: check its address"},
		{trusted.URL, "is not trusted: x509: certificate signed by unknown authority\nkubectl fettle: check the address, and certificate-authority-data"},
	} {
		file := filepath.Join(t.TempDir(), "config")
		text := fmt.Sprintf("{current-context: here, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: here, context: {cluster: c}}]}", c.server)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"status", "check", "health", "scale plan a --to 3", "scale execute a --to 3 --yes", "kubelet plan " + objects, "load plan", "pod verify x", "pod explain " + pod + " --root " + vm(t), "uninstall --yes"} {
			code, _, said := run(t, append([]string{"--kubeconfig", file}, strings.Fields(words)...)...)
			if want := "API server " + c.server + ` (context "here" of ` + file + ") " + c.want; code != ui.Failed || !strings.HasPrefix(said, "kubectl fettle: ") || !strings.Contains(said, want) {
				t.Errorf("%s: exit code %d, said %q, want %q", words, code, said, want)
			}
		}
	}
}

// TestServerThatGoesAway tests that the advice about a started run is printed even if the server
// disappears.
func TestServerThatGoesAway(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:1/api", Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, server := range []string{"https://127.0.0.1:1", "127.0.0.1:1"} {
		a := &app{server: server}
		told := ui.Hinted(ui.Failed, fmt.Errorf("pod 7: %w", refused), "load resume 1 goes on")
		if err := a.unreached(told); err != told { //nolint:errorlint // the very same
			t.Errorf("%s: %v", server, err)
		}
		if err := a.unreached(fmt.Errorf("the nodes: %w", refused)); ui.Code(err) != ui.Failed || !strings.HasPrefix(err.Error(), "the API server "+server+" (of this pod) cannot be reached: connection refused") {
			t.Errorf("%s: %v", server, err)
		}
		for _, other := range []error{nil, errors.New("127.0.0.1:1 is odd"), ui.Exit(ui.Incomplete, refused)} {
			if err := a.unreached(other); err != other { //nolint:errorlint // the very same
				t.Errorf("%s: %v", server, err)
			}
		}
	}
}

// TestOutputThatCannotBeWritten tests that the exit code shows an output error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, words := range []string{"--help", "schema", "schema error", "check --help"} {
		var said bytes.Buffer
		if code := runUntil(t.Context(), "1.2.3", strings.Fields(words), full, &said); code != ui.Failed || !strings.Contains(said.String(), "cannot write the output") {
			t.Errorf("%s: exit code %d, said %q", words, code, &said)
		}
	}
}

// TestVerbsAreWhatTheTableSays tests that a verb has the name in its line and a sentence, and
// refuses unknown words.
func TestVerbsAreWhatTheTableSays(t *testing.T) {
	for _, v := range verbs {
		c := v.command(&app{screen: ui.NewScreen(&bytes.Buffer{}, &bytes.Buffer{})})
		if c.Name() != v.name || c.Short == "" || c.Args == nil && !c.HasSubCommands() {
			t.Errorf("verb %s: command %q, short %q, or takes any words", v.name, c.Name(), c.Short)
		}
	}
}

// TestWordsAreAskedForInSentences tests that no message of cobra such as "accepts 1 arg(s)" is
// left.
func TestWordsAreAskedForInSentences(t *testing.T) {
	sentences(t, (&app{screen: ui.NewScreen(&bytes.Buffer{}, &bytes.Buffer{})}).rootCommand())
}

func sentences(t *testing.T, c *cobra.Command) {
	t.Helper()
	for n := range 5 {
		if err := c.ValidateArgs(slices.Repeat([]string{"x"}, n)); err != nil && strings.Contains(err.Error(), "arg(s)") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	}
	for _, sub := range c.Commands() {
		sentences(t, sub)
	}
}

// TestSchemas tests that each document has a schema, which also accepts the output of a failure.
func TestSchemas(t *testing.T) {
	for kind, doc := range documents {
		if _, err := ui.Schema("fettle/"+kind+"/v1", doc); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	code, out, _ := run(t, "schema", "nothing", "--output", "json")
	if code != ui.Usage {
		t.Fatal(code)
	}
	valid(t, "error", []byte(out))
}

// valid validates a printed document with its schema.
func valid(t *testing.T, kind string, text []byte) {
	t.Helper()
	schema, err := ui.Schema("fettle/"+kind+"/v1", documents[kind])
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := compiled.Validate(v); err != nil {
		t.Errorf("%s does not hold to its schema: %v\n%s", kind, err, text)
	}
}

// TestKubeconfig tests that the cluster is the one that kubectl would use.
func TestKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://a.test"}}, {name: b, cluster: {server: "https://b.test"}}],
contexts: [{name: a, context: {cluster: a, namespace: of-a}}, {name: b, context: {cluster: b}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		options         kubeOptions
		env             string
		host, namespace string
	}{
		{kubeOptions{kubeconfig: file}, "", "https://a.test", "of-a"},
		{kubeOptions{}, file, "https://a.test", "of-a"},
		{kubeOptions{kubeconfig: file, over: clientcmd.ConfigOverrides{CurrentContext: "b"}}, "", "https://b.test", "default"},
		{kubeOptions{kubeconfig: file, over: clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: "mine"}}}, "", "https://a.test", "mine"},
		{kubeOptions{kubeconfig: file, over: clientcmd.ConfigOverrides{CurrentContext: "c"}}, "", "", ""},
		{kubeOptions{kubeconfig: file + ".gone"}, "", "", ""},
		{kubeOptions{}, file + ".gone", "", ""},
	} {
		t.Setenv("KUBECONFIG", c.env)
		t.Setenv("HOME", t.TempDir())
		a := &app{version: "1", kube: c.options}
		config, err := a.config()
		if c.host == "" {
			if ui.Code(err) != ui.Usage {
				t.Errorf("%+v: %v", c.options, err)
			}
			continue
		}
		namespace, err2 := a.namespaceOfContext()
		if err != nil || err2 != nil || config.Host != c.host || namespace != c.namespace || config.UserAgent != "kubectl-fettle/1" {
			t.Errorf("%+v: %+v, namespace %q, %v %v", c.options, config, namespace, err, err2)
		}
	}
}
