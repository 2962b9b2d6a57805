package cli

import (
	"fmt"
	"strings"
	"testing"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// What size writes from the log and the configuration of a real Puppet Server, in place:
// an agent's catalogs carry the metadata, a file that was changed comes in its version,
// plugins come from the cache, and no client is who it claims to be.
func TestSizePuppetServer(t *testing.T) {
	testkitroot.Nightly(t, "starts Puppet Server twice, which takes minutes")
	if !testkitroot.Inside(t, testkitroot.Options{Puppet: true}) {
		return
	}
	product.Quicken(t)
	files := map[string]string{}
	manifest := "file { '/srv/out': ensure => directory }\n"
	for i := range 12 {
		files[fmt.Sprintf("%s/modules/m/files/f%d", product.Code, i)] = fmt.Sprintf("content %d\n", i)
		manifest += fmt.Sprintf("file { '/srv/out/f%d': source => 'puppet:///modules/m/f%d' }\n", i, i)
	}
	files[product.Code+"/modules/m/lib/facter/m.rb"] = "Facter.add(:m) { setcode { 'x' } }\n"
	files[product.Code+"/manifests/site.pp"] = manifest
	testkitmachine.Write(t, "/", files)
	agent := product.StartPuppetServer(t).Agent(t, "agent1.test")
	agent.Run(t)
	if n := strings.Count(product.Read(t, product.Log), "GET /puppet/v3/file_metadata/modules/m/f"); n < 12 {
		t.Fatalf("%d requests for metadata before: the test shows nothing", n)
	}
	out := fettle(t, "size", "puppet", "--cpus", "2", "--ram", "8GiB", "--front-end", "nginx", "--parts", "static,cache", "--write", "/srv/plan")
	if !strings.Contains(out, "static catalogs  verdict") {
		t.Error(out)
	}
	product.Stop(t)
	for _, command := range []string{
		"rm /srv/plan/.fettle-size.json; cp -r /srv/plan/. /; chmod 755 /usr/local/sbin/puppet-*",
		"install -d -o puppet -g puppet -m 0750 /var/lib/puppetserver/code-snapshots",
		"setpriv --reuid=puppet --regid=puppet --clear-groups /usr/local/sbin/puppet-code-id production",
		"nginx -t && nginx",
	} {
		product.Command(t, "sh", "-ec", command)
	}
	t.Cleanup(func() { product.Command(t, "nginx", "-s", "stop") })
	product.StartPuppetServer(t)

	const front = "/var/log/nginx/puppet.log"
	metadata := func() int { return strings.Count(product.Read(t, front), "GET /puppet/v3/file_metadata/modules") }
	agent.Run(t)
	agent.Run(t)
	if n := metadata(); n > 0 {
		t.Errorf("%d requests for metadata of files with static catalogs", n)
	}
	if text := product.Read(t, front); !strings.Contains(text, "GET /puppet/v3/file_metadatas/plugins") || !strings.Contains(text, " HIT ") && !strings.Contains(text, " HIT\n") {
		t.Errorf("plugins do not come from the cache:\n%s", text)
	}
	testkitmachine.Write(t, "/", map[string]string{product.Code + "/modules/m/files/f3": "changed\n"})
	agent.Run(t)
	product.Same(t, "/srv/out/f3", "changed\n")
	product.Same(t, "/srv/out/f4", "content 4\n")
	if text := product.Read(t, front); metadata() > 0 || !strings.Contains(text, "GET /puppet/v3/static_file_content/modules/m/files/f3") {
		t.Errorf("the file did not come in its version:\n%s", text)
	}
	status := func(words string) string {
		t.Helper()
		return product.Command(t, "sh", "-c", "curl -sk -o /dev/null -w '%{http_code}' --max-time 120 "+words)
	}
	const plugins = "'https://localhost:8140/puppet/v3/file_metadatas/plugins?environment=production'"
	const catalog = "'https://localhost:8140/puppet/v3/catalog/agent1.test?environment=production'"
	const forged = "-H 'X-Client-Verify: SUCCESS' -H 'X-Client-DN: CN=agent1.test' "
	own := "--cert " + agent.SSLDir + "/certs/agent1.test.pem --key " + agent.SSLDir + "/private_keys/agent1.test.pem "
	for words, want := range map[string]string{
		plugins: "403", forged + plugins: "403", forged + catalog: "403", catalog: "403",
		own + strings.Replace(catalog, "agent1", "agent2", 1): "403", own + "'https://localhost:8140/puppet/v3/node/agent1.test?environment=production'": "200",
	} {
		if got := status(words); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	if sockets := product.Command(t, "ss", "-Hltn"); strings.Count(sockets, ":8139") != 1 || !strings.Contains(sockets, "127.0.0.1]:8139") && !strings.Contains(sockets, "127.0.0.1:8139") {
		t.Errorf("the server listens at\n%s", sockets)
	}
	for _, id := range []string{"P01", "P20", "P21", "N09"} {
		if got := states(t, map[byte]string{'P': "puppet", 'N': "nginx"}[id[0]], id); got[0] != "pass" {
			t.Errorf("%s is %s", id, got)
		}
	}
}
