r = [(re.escape("['wte']['e']"), PS('tp')), (''.join((re.escape("['a']"), r"\['(q|k)'\]")), PS())]
