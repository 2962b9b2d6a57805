//go:build kubernetes_1_33

package upstream

const release = 33
