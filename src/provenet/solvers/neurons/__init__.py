"""Methods on neurons: the Burer–Monteiro factorisation, its Newton, escape and amplitudes."""
