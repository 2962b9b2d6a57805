package format

import (
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/strict"
)

// The fields of a file: those that source 002 documents (tables 5.1 to 5.7), those that are
// in Cluster Loader's code next to them, and, marked as ours, the extension.

type file struct {
	Provider      string               `yaml:"provider"`
	ClusterLoader *clusterloaderConfig `yaml:"ClusterLoader"`
}

// bare is a file of the earlier loader, which has no ClusterLoader around its fields.
type bare struct {
	Provider   string      `yaml:"provider"`
	Cleanup    bool        `yaml:"cleanup"`
	Projects   []project   `yaml:"projects"`
	TuningSets []tuningSet `yaml:"tuningsets"`
	Quotas     *yaml.Node  `yaml:"quotas"`
}

type clusterloaderConfig struct {
	At         string
	Cleanup    bool        `yaml:"cleanup"`
	Projects   []project   `yaml:"projects"`
	TuningSets []tuningSet `yaml:"tuningsets"`
	Sync       *sync       `yaml:"sync"`
	// IfExists is for the projects that do not say it.
	IfExists string `yaml:"ifexists" oneof:"reuse,delete,fail"`
	// Quotas are the earlier loader's.
	Quotas *yaml.Node `yaml:"quotas"`
	// Ours.
	Rate     string         `yaml:"rate"`
	InFlight int            `yaml:"inflight" min:"1"`
	Seed     int            `yaml:"seed"`
	Wait     *time.Duration `yaml:"wait" unit:"s"`
	SLO      []*yaml.Node   `yaml:"slo"`
}

type project struct {
	At           string
	Num          int                 `yaml:"num"`
	BaseName     string              `yaml:"basename"`
	Tuning       string              `yaml:"tuning"`
	IfExists     string              `yaml:"ifexists" oneof:"reuse,delete,fail"`
	Labels       strict.Pairs        `yaml:"labels"`
	NodeSelector string              `yaml:"nodeselector"`
	ConfigMaps   strict.Pairs        `yaml:"configmaps"`
	Secrets      strict.Pairs        `yaml:"secrets"`
	Templates    []clusterloaderItem `yaml:"templates"`
	Pods         []clusterloaderItem `yaml:"pods"`
	Objects      []clusterloaderItem `yaml:"objects"` // ours: any manifest
}

type clusterloaderItem struct {
	At         string
	Num        int          `yaml:"num"`
	BaseName   string       `yaml:"basename"`
	Image      string       `yaml:"image"`
	File       string       `yaml:"file"`
	Parameters strict.Pairs `yaml:"parameters"`
	Sync       *sync        `yaml:"sync"`
	// Total and Storage are the earlier loader's.
	Total   *yaml.Node `yaml:"total"`
	Storage *yaml.Node `yaml:"storage"`
}

type tuningSet struct {
	At        string
	Name      string `yaml:"name"`
	Pods      *pace  `yaml:"pods"`
	Templates *pace  `yaml:"templates"`
}

type pace struct {
	At        string
	Stepping  *stepping  `yaml:"stepping"`
	RateLimit *rateLimit `yaml:"rate_limit" also:"ratelimit"`
}

type stepping struct {
	At       string
	StepSize int           `yaml:"stepsize"`
	Pause    time.Duration `yaml:"pause" unit:"s"`
	Timeout  time.Duration `yaml:"timeout" unit:"s"`
}

type rateLimit struct {
	Delay time.Duration `yaml:"delay" unit:"ms"`
}

type sync struct {
	At        string
	Server    *server       `yaml:"server"`
	Running   bool          `yaml:"running"`
	Succeeded bool          `yaml:"succeeded"`
	Selectors strict.Pairs  `yaml:"selectors"`
	Timeout   time.Duration `yaml:"timeout"`
}

type server struct {
	Enabled bool   `yaml:"enabled"`
	Port    int    `yaml:"port"`
	Address string `yaml:"address"` // ours
}
