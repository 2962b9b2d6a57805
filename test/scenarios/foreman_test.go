package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
)

// TestForeman tests the stand-in by hand: a host registers, uploads its packages, is found,
// is changed, and is removed with what it had.
func TestForeman(t *testing.T) {
	t.Parallel()
	if !inside(t, nil) {
		return
	}
	if out := product.Command(t, "ruby", "-wc", apps+"/foreman.ru"); out != "Syntax OK" {
		t.Error(out)
	}
	database(t)
	foreman(t, puma{1, 0, 5})
	capsule(t)

	want := func(method, url, body string, status int, contains string) (answer map[string]any) {
		t.Helper()
		got, text := call(t, method, url, body)
		if got != status || !strings.Contains(text, contains) {
			t.Fatalf("%s %s: %d %s, want %d with %q", method, url, got, text, status, contains)
		}
		_ = json.Unmarshal([]byte(text), &answer)
		return answer
	}
	resp, err := http.Get(capsuleURL + "/api/v2/status")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Fettle-Stand-In") != "foreman" {
		t.Errorf("without a password: %s %v", resp.Status, resp.Header)
	}
	host := want("POST", foremanURL+"/api/v2/hosts", `{"host": {"name": "a1", "comment": "first"}}`, 201, `"name":"a1"`)
	show := foremanURL + "/api/v2/hosts/" + fmt.Sprint(host["id"])
	want("POST", foremanURL+"/api/v2/hosts", `{"host": {"name": "a1"}}`, 422, "taken")
	want("POST", foremanURL+"/rhsm/consumers?owner=Default&activation_keys=other", `{"name": "a1"}`, 404, "activation key")
	consumer := want("POST", capsuleURL+"/rhsm/consumers?owner=Default&activation_keys=load", `{"name": "a1", "facts": {"cpu": 2}}`, 200, `"uuid"`)
	uuid := fmt.Sprint(consumer["uuid"])
	want("PUT", foremanURL+"/rhsm/consumers/"+uuid, `{"facts": {"cpu": 4}}`, 200, "updated")
	want("PUT", foremanURL+"/rhsm/consumers/"+uuid+"/profiles", `[{"content_type": "rpm", "profile": [{"name": "bash", "version": "5", "release": "1", "arch": "x86_64"}, {"name": "zsh", "version": "5", "release": "1", "arch": "x86_64"}]}]`, 200, uuid)
	want("GET", foremanURL+"/register?organization_id=1&activation_keys=load", "", 200, "--activationkey='load'")
	after := want("GET", show, "", 200, `"cpu":4`)
	if after["updated_at"] == host["updated_at"] {
		t.Error("the upload did not change updated_at")
	}
	want("PUT", show, `{"host": {"comment": "mine"}}`, 200, "mine")
	if n := product.SQL(t, "foreman", "SELECT count(*) FROM packages"); n != "2" {
		t.Errorf("%s packages", n)
	}
	want("DELETE", show, "", 200, uuid)
	want("DELETE", show, "", 404, "not found")
	want("GET", foremanURL+"/rhsm/consumers/"+uuid, "", 404, "")
	if n := product.SQL(t, "foreman", "SELECT count(*) FROM hosts") + product.SQL(t, "foreman", "SELECT count(*) FROM packages"); n != "00" {
		t.Errorf("left: %s", n)
	}
}
