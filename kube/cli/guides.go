package cli

import "fettle.dev/fettle/internal/cliutil"

// guides maps each verb to its manual page and examples.
var guides = map[string]cliutil.Guide{
	"status": {Page: "kubernetes-tuned.md", Calls: []string{"", "worker-7 --output json", "--file my-tuned.yaml"}},

	"pod":         {Page: "pods.md", Calls: []string{"explain pod.yaml"}},
	"pod explain": {Calls: []string{"pod.yaml", "pod.yaml --state /var/tmp/node", "pod.yaml --expect admitted"}},
	"pod record":  {Calls: []string{"/var/tmp/node", "/var/tmp/node --root /host"}},
	"pod verify":  {Calls: []string{"web-0", "web-0 --namespace shop --root /host"}},
	"health":      {Page: "machine-health.md", Calls: []string{"", "workers --output json"}},

	"kubelet":      {Page: "kubelet.md", Calls: []string{"plan kubeletconfig.yaml"}},
	"kubelet plan": {Calls: []string{"kubeletconfig.yaml", "kubeletconfig.yaml --output json"}},

	"check": {Page: "cluster-check.md", Calls: []string{
		"", "--for 1.37 --fail-on fail", "--disable O03.node='Calico hands out the addresses'", "--root must-gather",
		"--etcd-cacert /etc/kubernetes/pki/etcd/ca.crt \\\n    --etcd-cert /etc/kubernetes/pki/apiserver-etcd-client.crt \\\n    --etcd-key /etc/kubernetes/pki/apiserver-etcd-client.key",
	}},

	"scale":         {Page: "machine-scale.md", Calls: []string{"plan workers --to 3"}},
	"scale plan":    {Calls: []string{"workers --to 3", "workers-a workers-b --roll"}},
	"scale execute": {Calls: []string{"workers --to 3", "workers-a workers-b --roll --batch 10"}},

	"load":               {Page: "cluster-load.md", Calls: []string{"plan"}},
	"load plan":          {Calls: []string{"load.yaml", "load.yaml --offline --openshift 4.17"}},
	"load run":           {Calls: []string{"load.yaml --rate 100/s", "load.yaml --slo 'ready p99 < 5s' --output html > load.html"}},
	"load resume":        {Page: "cluster-load-journal.md", Calls: []string{"", "--rate 100/s"}},
	"load status":        {Page: "cluster-load-journal.md", Calls: []string{"", "--output json"}},
	"load undo":          {Page: "cluster-load-journal.md", Calls: []string{"", "--output json"}},
	"load compare":       {Calls: []string{"a.json b.json", "a.json b.json --margin 5%"}},
	"load mirror":        {Calls: []string{"--write load", "shop shop-db --write load"}},
	"load http":          {Page: "cluster-load-generators.md", Calls: []string{"http://web.shop.svc:8080/ --generators 20 --rate 500/s \\\n    --image registry.example/fettle:1 --allow web.shop.svc:8080", "https://web.shop.svc/ --generators 8 --connections 400 --cert host1.pem --key host1.key \\\n    --image registry.example/fettle:1 --allow web.shop.svc:443 --dry-run"}},
	"load scenario":      {Page: "cluster-load-scenario.md", Calls: []string{"download --generators 8 --hosts 400 \\\n    --image registry.example/fettle:1 --scenario-server content=http://repo.shop.svc/ \\\n    --allow repo.shop.svc:80", "register.yaml --generators 8 --dry-run --image registry.example/fettle:1 \\\n    --allow foreman.shop.svc:443 --organization Shop --prefix loadtest- --most-hosts 500"}},
	"load scenario undo": {Page: "cluster-load-scenario.md", Calls: []string{"--image registry.example/fettle:1", "20261130-065501-0a1b2c3 --image registry.example/fettle:1 --namespace shop"}},

	"logs": {Page: "cluster-logs.md", Calls: []string{"access.log --claim web-logs --pods 8 --image registry.example/fettle:1", ". --claim web-logs --by path --top 20 --save all.part --image registry.example/fettle:1"}},

	"operator":  {Page: "kubernetes-install.md", Calls: []string{"--leader-elect=false", "--machine-namespace openshift-machine-api"}},
	"agent":     {Page: "kubernetes-agent.md", Calls: []string{"--node worker-1", "--uninstall --root /host"}},
	"uninstall": {Page: "kubernetes-install.md", Calls: []string{"", "--timeout 1h --yes"}},

	"schema":  {Page: "output.md", Calls: []string{"check", ""}},
	"version": {Page: "output.md", Calls: []string{"", "--output json"}},
}
