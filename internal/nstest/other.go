//go:build !linux

package nstest

func unavailable() string { return "needs Linux, for namespaces" }

func runInit() int { return 1 }

func runEnter() int { return 1 }

func runOuter() (int, error) { return 1, nil }
