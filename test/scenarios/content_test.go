package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// packages is how many packages the repository has.
const packages = 2000

// content starts httpd with the repository on contentURL.
func content(t *testing.T) {
	t.Helper()
	httpd(t, "8081", "DocumentRoot "+repository+"\n<Directory "+repository+">\nRequire all granted\n</Directory>\n")
}

// download downloads all packages by hosts at a time, and expects all of them.
func download(t *testing.T, at string, hosts int) *scenario.Result {
	t.Helper()
	x := run(t, "download", "--server", "content="+at, "--hosts", fmt.Sprint(hosts))
	last := x.Steps[len(x.Steps)-1]
	if last.Name != "package" || last.Runs != int64(hosts*packages) || last.BytesIn < int64(hosts)*38e6 || x.StandIn != "" {
		t.Errorf("%s: %d runs, %d bytes, stand-in %q", last.Name, last.Runs, last.BytesIn, x.StandIn)
	}
	return x
}

// TestDownload downloads the repository from httpd.
func TestDownload(t *testing.T) {
	t.Parallel()
	if !inside(t, withRepository(t)) {
		return
	}
	content(t)
	download(t, contentURL, 5)
}

// create sends a body to Pulp, waits for its task if there is one, and returns the path of
// what it created.
func create(t *testing.T, path, body string) string {
	t.Helper()
	status, text := call(t, "POST", pulpURL+path, body)
	var a struct {
		Href    string `json:"pulp_href"`
		Task    string
		State   string
		Created []string `json:"created_resources"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %s", path, body, status, text)
	}
	if a.Task == "" {
		return a.Href
	}
	if !root.Eventually(10*time.Minute, func() bool {
		_, text = call(t, "GET", pulpURL+a.Task, "")
		err := json.Unmarshal([]byte(text), &a)
		return err != nil || a.State == "completed" || a.State == "failed"
	}) || a.State != "completed" {
		t.Fatalf("%s %s: %s", path, body, text)
	}
	return append(a.Created, "")[0]
}

// count returns how many objects a list of Pulp's API has.
func count(t *testing.T, list string) (n int) {
	t.Helper()
	status, text := call(t, "GET", pulpURL+"/pulp/api/v3"+list, "")
	var a struct{ Count int }
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", list, status, text)
	}
	return a.Count
}

// TestPulp synchronizes the repository with Pulp by the scenario and removes that again, and
// downloads from Pulp what it published of another one.
func TestPulp(t *testing.T) {
	root.Nightly(t, "installs Pulp")
	t.Parallel()
	if !inside(t, withPulp(t)) {
		return
	}
	content(t)
	pulp(t, 2)
	const api = "/pulp/api/v3"
	mine := create(t, api+"/repositories/rpm/rpm/", `{"name": "mine"}`)

	x := run(t, "content-sync", "--server", "pulp="+pulpURL, "--server", "feed="+contentURL, "--organization", "Default", "--prefix", "t-", "--hosts", "2")
	if n := count(t, "/content/rpm/packages/"); n != packages || x.Created.Known != 4 || x.StandIn != "" {
		t.Errorf("%d packages, %+v, stand-in %q", n, x.Created, x.StandIn)
	}
	var repository string
	for n := range 2 {
		_, text := call(t, "GET", fmt.Sprintf("%s%s/repositories/rpm/rpm/?name=t-%06d", pulpURL, api, n+1), "")
		_, rest, _ := strings.Cut(text, `"pulp_href":"`)
		repository, _, _ = strings.Cut(rest, `"`)
		if !strings.Contains(text, "/versions/1/") {
			t.Errorf("not synchronized: %s", text)
		}
	}
	publication := create(t, api+"/publications/rpm/rpm/", `{"repository": "`+repository+`"}`)
	create(t, api+"/distributions/rpm/rpm/", `{"name": "test", "base_path": "test", "publication": "`+publication+`"}`)
	download(t, pulpURL+"/pulp/content/test", 5)
	name := "scenario-01999-1-1.noarch.rpm"
	if out := product.Command(t, "rpm", "-K", "--nosignature", filepath.Join("/srv/repository", name)); !strings.Contains(out, "digests OK") {
		t.Error(out)
	}

	u := fettle[scenario.Undone](t, 0, "undo", x.RunID)
	product.Eventually(t, "only the other repository is left", func() bool {
		return count(t, "/repositories/rpm/rpm/") == 1 && count(t, "/remotes/rpm/rpm/") == 0
	})
	if status, _ := call(t, "GET", pulpURL+mine, ""); status != http.StatusOK || u.Removed != 4 {
		t.Errorf("%d, %+v", status, u)
	}
}
