package cli

// examples are a call of each verb that takes arguments, or more than its defaults, by its
// words: its arguments first. A call in which they are missing is printed with these.
var examples = map[string]string{
	"agent":         "--node worker-1",
	"check":         "--fail-on fail",
	"health":        "--output json",
	"kubelet":       "plan kubeletconfig.yaml",
	"kubelet plan":  "kubeletconfig.yaml",
	"load":          "plan",
	"load compare":  "a.json b.json --margin 5%",
	"load mirror":   "--write load",
	"load plan":     "load.yaml --offline",
	"load resume":   "--rate 100/s",
	"load run":      "load.yaml --rate 100/s",
	"load status":   "--output json",
	"load undo":     "--output json",
	"operator":      "--leader-elect=false",
	"pod":           "explain pod.yaml",
	"pod explain":   "pod.yaml",
	"pod record":    "/var/tmp/node",
	"pod verify":    "web-0",
	"scale":         "plan workers --to 3",
	"scale execute": "workers --to 3",
	"scale plan":    "workers --to 3",
	"schema":        "check",
	"status":        "--output json",
	"uninstall":     "--timeout 1h",
}
